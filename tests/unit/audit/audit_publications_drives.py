"""Correct publications about drives, servers and volumes (see ``audit_publications``)."""

from __future__ import annotations

DRIVES = {
    "nvme_brief": """
config:
  runs_per_point = 3 [count]; run_to_run_variation = below 2 [%];
  power_analyzer = Quarch PPM [model]; direct = 1 [count]; ioengine = io_uring [model];
  test_file_size = 7.68 TB [TB]; power_boundary = drive, 12 V and 3.3 V rails
config: Z1 Pro 7.68TB
  interface = PCIe Gen5 x4 [model]; pcie_generation = 5 [pcie_gen]; capacity = 7.68 [TB];
  drives = 1 [count]
limit: Z1 Pro 7.68TB
  max_power = 25 W [W]
config: Z0 Pro 7.68TB
  interface = PCIe Gen4 x4 [model]; pcie_generation = 4 [pcie_gen]; capacity = 7.68 [TB];
  drives = 1 [count]
limit: Z0 Pro 7.68TB
  max_power = 20 W [W]
measured: Z1 Pro 7.68TB @ randread 100/0 4KiB read iodepth=256
  rand_read_iops = 1450K [IOPS]; lat_avg_us = 176.6 [us]; lat_p99_us = 300 [us];
  power_w_avg = 14.2 [W]; iops_per_watt = 102.1K [IOPS/W]
measured: Z0 Pro 7.68TB @ randread 100/0 4KiB read iodepth=256
  rand_read_iops = 980K [IOPS]; lat_avg_us = 261.2 [us]; lat_p99_us = 444 [us];
  power_w_avg = 12.5 [W]; iops_per_watt = 78.4K [IOPS/W]
measured: Z1 Pro 7.68TB @ seqread 100/0 128KiB read iodepth=32
  seq_read_bandwidth = 14,000 [MB/s]; power_w_avg = 16.5 [W]; perf_per_watt = 848 [MB/s/W];
  lat_avg_us = 300 [us]; tb_per_kwh = 3055 [TB/kWh]
measured: Z0 Pro 7.68TB @ seqread 100/0 128KiB read iodepth=32
  seq_read_bandwidth = 6,900 [MB/s]; power_w_avg = 11.8 [W]; perf_per_watt = 585 [MB/s/W];
  lat_avg_us = 608 [us]; tb_per_kwh = 2105 [TB/kWh]
measured: Z1 Pro 7.68TB @ seqwrite 0/100 128KiB write iodepth=32
  seq_write_bandwidth = 9,500 [MB/s]; power_w_avg = 18.1 [W]; perf_per_watt = 525 [MB/s/W]
measured: Z0 Pro 7.68TB @ seqwrite 0/100 128KiB write iodepth=32
  seq_write_bandwidth = 4,100 [MB/s]; power_w_avg = 13.0 [W]; perf_per_watt = 315 [MB/s/W]
ratio_claim: Z1 Pro 7.68TB > Z0 Pro 7.68TB @ randread 100/0 4KiB read iodepth=256
  iops_increase = 48% [%]; latency_reduction = 32% [%]; iops_per_watt_improvement = 30% [%]
ratio_claim: Z1 Pro 7.68TB > Z0 Pro 7.68TB @ seqread 100/0 128KiB read iodepth=32
  bandwidth_ratio = 2.0x [x]
ratio_claim: Z1 Pro 7.68TB > Z0 Pro 7.68TB @ seqwrite 0/100 128KiB write iodepth=32
  bandwidth_ratio = 2.3x [x]
headline_claim: Z1 Pro 7.68TB > Z0 Pro 7.68TB
  bandwidth_ratio = 2.3x [x] !up_to; bandwidth_ratio_min = 2x [x] !range_min
headline_claim: Z1 Pro 7.68TB
  rand_read_iops = 1.45 million [IOPS] !headline
""",
    "datasheet": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
config: E1 1.6TB
  capacity = 1.6 [TB]
measured: E1 1.6TB
  sequential_read = 7,000 [MB/s]; sequential_write = 2,900 [MB/s]; random_read_4k = 1,000K [IOPS];
  random_write_4k = 190K [IOPS]; read_latency_typ = 75 [us]; write_latency_typ = 15 [us];
  active_power_max = 11 [W]; idle_power = 5 [W]; mtbf = 2.5 million [h]; dwpd = 3;
  endurance = 8.8 [PB]; uber = 1E-17
config: E1 3.2TB
  capacity = 3.2 [TB]
measured: E1 3.2TB
  sequential_read = 7,000 [MB/s]; sequential_write = 5,600 [MB/s]; random_read_4k = 1,100K [IOPS];
  random_write_4k = 360K [IOPS]; read_latency_typ = 75 [us]; write_latency_typ = 15 [us];
  active_power_max = 14 [W]; idle_power = 5 [W]; mtbf = 2.5 million [h]; dwpd = 3;
  endurance = 17.5 [PB]; uber = 1E-17
config: E1 6.4TB
  capacity = 6.4 [TB]
measured: E1 6.4TB
  sequential_read = 7,000 [MB/s]; sequential_write = 5,600 [MB/s]; random_read_4k = 1,100K [IOPS];
  random_write_4k = 390K [IOPS]; read_latency_typ = 75 [us]; write_latency_typ = 15 [us];
  active_power_max = 18 [W]; idle_power = 5 [W]; mtbf = 2.5 million [h]; dwpd = 3;
  endurance = 35.0 [PB]; uber = 1E-17
limit: E1 6.4TB
  max_power = 20 W [W]
""",
    "generations": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: new @ w1 70/30 8KB
  iops = 1.67M [IOPS]
measured: old @ w1 70/30 8KB
  iops = 1.00M [IOPS]
measured: new @ w1 70/30 8KB
  lat_mean = 77 [us]
measured: old @ w1 70/30 8KB
  lat_mean = 128 [us]
ratio_claim: new > old @ w1 70/30 8KB
  iops_ratio = 1.6x [x]; iops_increase = 67% [%]; iops_relative = 167% [%]
measured: new @ w2 100/0 8KB
  iops = 2.49M [IOPS]
measured: old @ w2 100/0 8KB
  iops = 1.00M [IOPS]
measured: new @ w2 100/0 8KB
  lat_mean = 51 [us]
measured: old @ w2 100/0 8KB
  lat_mean = 128 [us]
ratio_claim: new > old @ w2 100/0 8KB
  iops_ratio = 2.5x [x]; iops_increase = 149% [%]; iops_relative = 249% [%]
measured: new @ w3 0/100 8KB
  iops = 0.92M [IOPS]
measured: old @ w3 0/100 8KB
  iops = 1.00M [IOPS]
measured: new @ w3 0/100 8KB
  lat_mean = 139 [us]
measured: old @ w3 0/100 8KB
  lat_mean = 128 [us]
ratio_claim: new > old @ w3 0/100 8KB
  iops_reduction = 8% [%]; iops_ratio = 0.92x [x]; iops_relative = 92% [%]
ratio_claim: new > old @ w1 70/30 8KB
  latency_reduction = 40% [%]; latency_ratio = 0.6x [x]
ratio_claim: old > new @ w1 70/30 8KB
  latency_increase = 66% [%]
ratio_claim: new > old @ w1 70/30 8KB
  lat_mean_faster = 1.67x [x]; lower_latency = 40% [%]; latency_improvement = 1.6x [x]
""",
    "power_table": """
config:
  n_runs = 3 [count]; measurement_uncertainty = 0.5 % [%]; wattmeter = WT310E [model];
  power_measured_at = wall, AC; working_set_size = 20 TB [TB]; ram = 768 GB [GB];
  iodepth = 64 [count]; numjobs = 16 [count]
measured: Server A
  power_idle = 312 [W]
measured: Server A @ stream_read 100/0 128KiB read
  power_active = 468.0 [W]; throughput = 24,000 [MB/s]; duration = 1,800 [s]; energy = 234 [Wh];
  energy_efficiency = 184.6 [TB/kWh]; power_efficiency = 51.3 [MB/s/W];
  energy_per_tb = 5.42 [Wh/TB]; power_peak = 505 [W]; data_read = 43.2 [TB];
  power_above_idle = 156 [W]
measured: Server B
  power_idle = 285 [W]
measured: Server B @ stream_read 100/0 128KiB read
  power_active = 402.0 [W]; throughput = 15,500 [MB/s]; duration = 2,787 [s]; energy = 311 [Wh];
  energy_efficiency = 138.8 [TB/kWh]; power_efficiency = 38.6 [MB/s/W];
  energy_per_tb = 7.20 [Wh/TB]; power_peak = 434 [W]; data_read = 43.2 [TB];
  power_above_idle = 117 [W]
ratio_claim: Server A > Server B @ stream_read 100/0 128KiB read
  energy_efficiency_increase = 33% [%]; energy_reduction = 25% [%]; duration_reduction = 35% [%]
ratio_claim: Server A > Server B
  idle_power_increase = 9% [%]
""",
    "archive": """
config:
  repeats = 3 [count]; stdev = 2 % [%]; power_meter = PDU outlet [model];
  power_boundary = enclosure; data_set_size = 500 TB [TB]; host_memory = 256 GB [GB];
  streams = 64 [count]
config: QLC JBOF
  drive_count = 24 [count]; drive_capacity = 122.88 [TB]; raw_capacity = 2.95 [PB];
  rack_units = 2 [U]; capacity_per_rack_unit = 1475 [TB/U]; enclosures_per_rack = 20 [count];
  capacity_per_rack = 59.0 [PB]; price = 98,000 [USD]; cost_per_tb = 33.2 [USD/TB]
measured: QLC JBOF @ seq_read 100/0 1MiB read
  throughput = 48 [GB/s]; power = 610 [W]; power_per_tb = 0.207 [W/TB];
  throughput_per_tb = 16.3 [MB/s/TB]; throughput_per_rack_unit = 24.00 [GB/s];
  mb_s_per_w = 78.7 [MB/s/W]; annual_energy = 5,344 [kWh]
config: HDD JBOD
  drive_count = 102 [count]; drive_capacity = 24 [TB]; raw_capacity = 2.45 [PB];
  rack_units = 4 [U]; capacity_per_rack_unit = 612 [TB/U]; enclosures_per_rack = 10 [count];
  capacity_per_rack = 24.5 [PB]; price = 61,000 [USD]; cost_per_tb = 24.9 [USD/TB]
measured: HDD JBOD @ seq_read 100/0 1MiB read
  throughput = 21 [GB/s]; power = 1,090 [W]; power_per_tb = 0.445 [W/TB];
  throughput_per_tb = 8.6 [MB/s/TB]; throughput_per_rack_unit = 5.25 [GB/s];
  mb_s_per_w = 19.3 [MB/s/W]; annual_energy = 9,548 [kWh]
ratio_claim: QLC JBOF > HDD JBOD @ seq_read 100/0 1MiB read
  throughput_ratio = 2.3x [x]; power_per_tb_reduction = 53% [%]
ratio_claim: QLC JBOF > HDD JBOD
  cost_per_tb_ratio = 1.33x [x]; capacity_per_rack_ratio = 2.4x [x]
ratio_claim: QLC JBOF > HDD JBOD @ seq_read 100/0 1MiB read
  annual_energy_reduction = 44% [%]
""",
    "other_words": """
config:
  runs = 3; stdev = 1 [%]; direct_io = 1; outstanding_ios = 128
measured: Base @ db 70/30 8KiB
  throughput = 1,000 [MB/s]
measured: New @ db 70/30 8KiB
  throughput = 1,330 [MB/s]
ratio_claim: New > Base @ db 70/30 8KiB
  throughput_improvement = 33% [%]; throughput_improvement = 1.33x [x];
  relative_throughput = 133% [%]; higher_throughput = 1.3x [x]; throughput_ratio = 133% [%];
  throughput_increase = one third [%] !about ~33.3; throughput_ratio = 4/3 [x] ~1.333
ratio_claim: Base > New @ db 70/30 8KiB
  throughput_slower = 25% [%]; relative_throughput = 75% [%]
measured: New @ kv 50/50 4KiB
  tput = 210-260 [MB/s] !range_min ~210; tput = 210-260 [MB/s] !range_max ~260
measured: Base @ kv 50/50 4KiB
  tput = 120-150 [MB/s] !range_min ~120; tput = 120-150 [MB/s] !range_max ~150
headline_claim: New > Base @ kv
  throughput_ratio = 1.7x [x] !up_to
""",
    "open_loop": """
config:
  runs = 3 [count]; ci = 1 [%]; direct = 1 [count]; iodepth = 256 [count];
  load_model = open loop, Poisson [model]
measured: A @ rr 100/0 4KiB read target_iops=50000
  iops = 50K [IOPS]; latency_mean = 95 [us]; latency_p99 = 286 [us]
measured: B @ rr 100/0 4KiB read target_iops=50000
  iops = 50K [IOPS]; latency_mean = 175 [us]; latency_p99 = 524 [us]
ratio_claim: A > B @ rr 100/0 4KiB read target_iops=50000
  latency_mean_reduction = 45% [%]
measured: A @ rr 100/0 4KiB read target_iops=100000
  iops = 100K [IOPS]; latency_mean = 101 [us]; latency_p99 = 304 [us]
measured: B @ rr 100/0 4KiB read target_iops=100000
  iops = 100K [IOPS]; latency_mean = 192 [us]; latency_p99 = 576 [us]
ratio_claim: A > B @ rr 100/0 4KiB read target_iops=100000
  latency_mean_reduction = 47% [%]
measured: A @ rr 100/0 4KiB read target_iops=200000
  iops = 200K [IOPS]; latency_mean = 116 [us]; latency_p99 = 347 [us]
measured: B @ rr 100/0 4KiB read target_iops=200000
  iops = 200K [IOPS]; latency_mean = 240 [us]; latency_p99 = 720 [us]
ratio_claim: A > B @ rr 100/0 4KiB read target_iops=200000
  latency_mean_reduction = 52% [%]
measured: A @ rr 100/0 4KiB read target_iops=400000
  iops = 400K [IOPS]; latency_mean = 162 [us]; latency_p99 = 486 [us]
measured: B @ rr 100/0 4KiB read target_iops=400000
  iops = 400K [IOPS]; latency_mean = 480 [us]; latency_p99 = 1440 [us]
ratio_claim: A > B @ rr 100/0 4KiB read target_iops=400000
  latency_mean_reduction = 66% [%]
""",
    "fixed_rate_note": """
config:
  runs = 3 [count]; ci = 1 [%]; direct = 1 [count]; iodepth = 64 [count]; numjobs = 4 [count];
  rate_iops_limit = 100000 [count]
measured: A @ rr 100/0 4KiB read
  iops = 100K [IOPS]; latency_mean = 90 [us]
measured: B @ rr 100/0 4KiB read
  iops = 100K [IOPS]; latency_mean = 160 [us]
ratio_claim: A > B @ rr 100/0 4KiB read
  latency_reduction = 44% [%]
""",
    "power_states": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: D @ sr 100/0 128KiB read power_state=0
  throughput = 13,800 [MB/s]; power = 24.6 [W]; efficiency = 561 [MB/s/W]
measured: D @ sr 100/0 128KiB read power_state=1
  throughput = 11,900 [MB/s]; power = 19.8 [W]; efficiency = 601 [MB/s/W]
measured: D @ sr 100/0 128KiB read power_state=2
  throughput = 8,300 [MB/s]; power = 14.7 [W]; efficiency = 565 [MB/s/W]
measured: D @ sr 100/0 128KiB read power_state=3
  throughput = 5,700 [MB/s]; power = 11.9 [W]; efficiency = 479 [MB/s/W]
limit: D @ - power_state=0
  power_limit = 25 W [W]
limit: D @ - power_state=1
  power_limit = 20 W [W]
limit: D @ - power_state=2
  power_limit = 15 W [W]
limit: D @ - power_state=3
  power_limit = 12 W [W]
config: D
  drives = 1 [count]
""",
    "hdd_vs_ssd": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; power_meter = PDU [model];
  power_boundary = system; iodepth = 32 [count]; numjobs = 8 [count]
config: 12x 20TB HDD
  drive_count = 12 [count]; drive_capacity = 20 [TB]
config: 4x 61TB SSD
  drive_count = 4 [count]; drive_capacity = 61.44 [TB]
measured: 12x 20TB HDD @ randread 100/0 4KiB
  iops = 2,600 [IOPS]; mean_latency = 98.5 [ms]; bandwidth = 10.6 [MB/s]; power = 118.0 [W];
  iops_per_watt = 22.0 [IOPS/W]
measured: 4x 61TB SSD @ randread 100/0 4KiB
  iops = 5,400,000 [IOPS]; mean_latency = 0.0474 [ms]; bandwidth = 22,118.4 [MB/s];
  power = 88.0 [W]; iops_per_watt = 61,363.6 [IOPS/W]
ratio_claim: 4x 61TB SSD > 12x 20TB HDD @ randread 100/0 4KiB
  iops_ratio = 2,077x [x]; latency_ratio = about 2,077x [x] !about; power_reduction = 25% [%]
measured: 12x 20TB HDD @ randread 100/0 64KiB
  iops = 2,350 [IOPS]; mean_latency = 109 [ms]; bandwidth = 154.0 [MB/s]; power = 118.0 [W];
  iops_per_watt = 19.9 [IOPS/W]
measured: 4x 61TB SSD @ randread 100/0 64KiB
  iops = 410,000 [IOPS]; mean_latency = 0.624 [ms]; bandwidth = 26,869.8 [MB/s]; power = 88.0 [W];
  iops_per_watt = 4,659.1 [IOPS/W]
ratio_claim: 4x 61TB SSD > 12x 20TB HDD @ randread 100/0 64KiB
  iops_ratio = 174x [x]; latency_ratio = about 174x [x] !about; power_reduction = 25% [%]
measured: 12x 20TB HDD @ randrw 70/30 16KiB
  iops = 2,500 [IOPS]; mean_latency = 102 [ms]; bandwidth = 41.0 [MB/s]; power = 118.0 [W];
  iops_per_watt = 21.2 [IOPS/W]
measured: 4x 61TB SSD @ randrw 70/30 16KiB
  iops = 800,000 [IOPS]; mean_latency = 0.32 [ms]; bandwidth = 13,107.2 [MB/s]; power = 88.0 [W];
  iops_per_watt = 9,090.9 [IOPS/W]
ratio_claim: 4x 61TB SSD > 12x 20TB HDD @ randrw 70/30 16KiB
  iops_ratio = 320x [x]; latency_ratio = about 320x [x] !about; power_reduction = 25% [%]
""",
    "drive_and_system_power": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
config: S1
  drives = 1 [count]
limit: S1
  max_power = 25 W [W]
measured: S1 @ w 100/0 128KiB read
  throughput = 12,400 [MB/s]; drive_power = 19.6 [W]; system_power = 344 [W];
  power_efficiency = 633 [MB/s/W]; system_power_efficiency = 36.0 [MB/s/W]
""",
    "two_boundaries": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = Quarch + PDU [model]
config: AA
  power_boundary_drives = drives only; power_boundary_wall = wall
measured: AA @ sr 100/0 1MiB read
  throughput = 11,800 [MB/s]; power_drives = 38 [W]; power_wall = 402 [W];
  power_efficiency_drives = 311 [MB/s/W]; power_efficiency_wall = 29.4 [MB/s/W];
  tb_per_kwh_wall = 105.7 [TB/kWh]
config: BB
  power_boundary_drives = drives only; power_boundary_wall = wall
measured: BB @ sr 100/0 1MiB read
  throughput = 12,100 [MB/s]; power_drives = 61 [W]; power_wall = 433 [W];
  power_efficiency_drives = 198 [MB/s/W]; power_efficiency_wall = 27.9 [MB/s/W];
  tb_per_kwh_wall = 100.6 [TB/kWh]
ratio_claim: AA > BB @ sr 100/0 1MiB read
  power_efficiency_drives_ratio = 1.6x [x]; power_wall_reduction = 7% [%]
""",
    "blank_unit": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: g1 @ rr 100/0 64KiB read
  throughput_gib_s = 3.10; throughput_gb_s = 3.33; iops_k = 50.8; lat_avg_ms = 2.52;
  lat_p99_ms = 7.88; power_w = 44.0; mb_s_per_w = 75.6; kiops_per_w = 1.15;
  energy_wh_per_run = 7.33; runtime_s = 600; cpu_pct = 34; bw_gbps = 26.6
measured: g2 @ rr 100/0 64KiB read
  throughput_gib_s = 5.89; throughput_gb_s = 6.32; iops_k = 96.5; lat_avg_ms = 1.33;
  lat_p99_ms = 4.15; power_w = 60.6; mb_s_per_w = 104.3; kiops_per_w = 1.59;
  energy_wh_per_run = 10.11; runtime_s = 600; cpu_pct = 34; bw_gbps = 50.6
ratio_claim: g2 > g1 @ rr 100/0 64KiB read
  throughput_speedup = 1.9; latency_reduction_pct = 47
""",
    "same_ops_three_tests": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: P @ 4k_random - 4KiB read
  iops = 810K [IOPS]
measured: P @ 4k_random - 4KiB write
  iops = 310K [IOPS]
measured: P @ 4k_random 70/30 4KiB total
  iops = 520K [IOPS]
measured: P @ 4k_random - 4KiB read
  power = 11.0 [W]
measured: P @ 4k_random - 4KiB write
  power = 13.0 [W]
measured: P @ 4k_random - 4KiB read
  energy_per_io = 13.6 [uJ/IO]; iops_per_watt = 73.6K [IOPS/W]
measured: Q @ 4k_random - 4KiB read
  iops = 1061K [IOPS]
measured: Q @ 4k_random - 4KiB write
  iops = 406K [IOPS]
measured: Q @ 4k_random 70/30 4KiB total
  iops = 681K [IOPS]
measured: Q @ 4k_random - 4KiB read
  power = 14.4 [W]
measured: Q @ 4k_random - 4KiB write
  power = 17.0 [W]
measured: Q @ 4k_random - 4KiB read
  energy_per_io = 13.6 [uJ/IO]; iops_per_watt = 73.6K [IOPS/W]
ratio_claim: Q > P @ 4k_random - 4KiB read
  iops_increase = 31% [%]
headline_claim: Q > P
  iops_increase = about 31% [%] !about
""",
    "cloud": """
config:
  repetitions = 3 [count]; iqr = 2 % [%]; dataset_size = 1 TB [TB];
  instance_memory = 64 GiB [GiB]; iodepth = 64 [count]; numjobs = 1 [count]
limit: gp-volume
  provisioned_iops = 16,000 [IOPS]
config: gp-volume
  volume_size = 1,000 [GiB]; price_per_month = 160 [USD]; price_per_gib_month = 0.160 [USD/GiB]
measured: gp-volume @ randread 100/0 16KiB read
  iops = 15,984 [IOPS]; throughput_mib_s = 250 [MiB/s]; latency_mean = 4.00 [ms];
  latency_p99 = 6.41 [ms]; iops_per_dollar = 99.9 [IOPS/USD]
limit: io-volume
  provisioned_iops = 64,000 [IOPS]
config: io-volume
  volume_size = 1,000 [GiB]; price_per_month = 4,285 [USD]; price_per_gib_month = 4.285 [USD/GiB]
measured: io-volume @ randread 100/0 16KiB read
  iops = 63,936 [IOPS]; throughput_mib_s = 999 [MiB/s]; latency_mean = 1.00 [ms];
  latency_p99 = 1.60 [ms]; iops_per_dollar = 14.9 [IOPS/USD]
ratio_claim: io-volume > gp-volume @ randread 100/0 16KiB read
  iops_ratio = 4x [x]; latency_reduction = 75% [%]
ratio_claim: io-volume > gp-volume
  price_ratio = 27x [x]
""",
}
