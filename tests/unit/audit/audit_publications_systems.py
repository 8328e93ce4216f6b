"""Correct publications about clusters, appliances and applications."""

from __future__ import annotations

SYSTEMS = {
    "object_appliance": """
config:
  benchmark_repeats = 5 [count]; confidence_level = 95% [%]; dataset_size = 60 TB [TB];
  memory_per_node = 256 GB [GB]; warp_concurrency = 512 [count]; warp_clients = 8 [count];
  nodes = 6 [count]; power_meter = rack PDU, 1 Hz [model]; power_boundary = whole rack at the PDU
config: OBX all-flash
  drives_per_node = 12 [count]; drive_capacity = 15.36 [TB]; raw_capacity = 1,106 [TB];
  usable_capacity = 804 [TB]; erasure_code = 8+3 [model]
config: OBX hybrid
  drives_per_node = 12 [count]; drive_capacity = 16 [TB]; raw_capacity = 1,152 [TB];
  usable_capacity = 838 [TB]; erasure_code = 8+3 [model]
measured: OBX all-flash @ warp_get 100/0 8MiB GET
  throughput = 61.3 [GiB/s]
measured: OBX all-flash @ warp_put 0/100 8MiB PUT
  throughput = 33.8 [GiB/s]
measured: OBX all-flash @ warp_get 100/0 8MiB GET
  throughput_per_node = 10.2 [GiB/s]; objects_per_second = 7,846 [obj/s]
measured: OBX all-flash @ warp_put 0/100 8MiB PUT
  objects_per_second = 4,326 [obj/s]
measured: OBX all-flash @ warp_get 100/0 8MiB GET
  power_avg = 3,120 [W]; throughput_per_watt = 21.10 [MB/s/W]; ttfb_median = 31 [ms];
  ttfb_p99 = 74 [ms]
measured: OBX all-flash @ warp_mixed 70/30 8MiB GET
  throughput = 34.3 [GiB/s]
measured: OBX all-flash @ warp_mixed 70/30 8MiB PUT
  throughput = 14.7 [GiB/s]
measured: OBX all-flash @ warp_mixed 70/30 8MiB total
  throughput = 49.0 [GiB/s]
measured: OBX hybrid @ warp_get 100/0 8MiB GET
  throughput = 9.1 [GiB/s]
measured: OBX hybrid @ warp_put 0/100 8MiB PUT
  throughput = 6.2 [GiB/s]
measured: OBX hybrid @ warp_get 100/0 8MiB GET
  throughput_per_node = 1.5 [GiB/s]; objects_per_second = 1,165 [obj/s]
measured: OBX hybrid @ warp_put 0/100 8MiB PUT
  objects_per_second = 794 [obj/s]
measured: OBX hybrid @ warp_get 100/0 8MiB GET
  power_avg = 3,660 [W]; throughput_per_watt = 2.67 [MB/s/W]; ttfb_median = 188 [ms];
  ttfb_p99 = 702 [ms]
measured: OBX hybrid @ warp_mixed 70/30 8MiB GET
  throughput = 5.1 [GiB/s]
measured: OBX hybrid @ warp_mixed 70/30 8MiB PUT
  throughput = 2.2 [GiB/s]
measured: OBX hybrid @ warp_mixed 70/30 8MiB total
  throughput = 7.3 [GiB/s]
ratio_claim: OBX all-flash > OBX hybrid @ warp_get 100/0 8MiB GET
  throughput_ratio = 6.7x [x]
ratio_claim: OBX all-flash > OBX hybrid @ warp_put 0/100 8MiB PUT
  throughput_ratio = 5.4x [x]
ratio_claim: OBX all-flash > OBX hybrid @ warp_get 100/0 8MiB GET
  ttfb_median_ratio = 6x [x]; power_reduction = 14% [%]; throughput_per_watt_ratio = 7.9x [x]
headline_claim: OBX all-flash > OBX hybrid
  throughput_ratio = 6.7x [x] !up_to; throughput_ratio_min = 5.4x [x] !range_min
""",
    "ec_cluster": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; power_meter = PDU [model];
  power_boundary = system; concurrency_per_client = 64 [count]; clients = 10 [count];
  servers = 9 [count]
config: C9
  drives_per_server = 10 [count]; drive_capacity = 30.72 [TB]; raw_capacity = 2.8 [PB];
  raw_capacity_per_server = 307 [TB]; nics_per_server = 2 [count]; nic_speed = 100 Gb/s [Gb/s]
measured: C9 @ get 100/0 16MiB GET
  throughput = 165 [GB/s]; throughput = 154 [GiB/s]; throughput_per_server = 18.3 [GB/s];
  throughput_per_server = 17.1 [GiB/s]; objects_per_second = 9,835 [obj/s];
  throughput_per_drive = 1.8 [GB/s]; ttfb_avg = 12 [ms]; latency_avg = 65 [ms]
measured: C9 @ put 0/100 16MiB PUT
  throughput = 82 [GB/s]; throughput = 76 [GiB/s]; latency_avg = 131 [ms]
headline_claim: C9 @ get
  throughput = more than 160 GB/s [GB/s] !more_than
headline_claim: C9
  throughput = 165 GB/s [GB/s] !up_to
""",
    "mlperf_training": """
config:
  num_runs = 5 [count]; au_stddev = 0.3 [%]; dataset_multiple_of_memory = 5 [count];
  dataset_size = 15 TB [TB]; client_memory = 512 GB [GB]; client_hosts = 4 [count];
  unet3d_h100_au_threshold = 90% [%]
measured: Array X 2U @ unet3d_h100
  accelerators = 72 [count]
measured: Array X 2U @ unet3d_h100 accelerators=72
  accelerator_utilization = 92.4 [%]; training_samples_per_second = 1,396.8 [samples/s];
  throughput_mb_s = 204,771 [MB/s]; throughput_per_accelerator = 2,844 [MB/s];
  throughput_per_rack_unit = 102,385 [MB/s]
measured: Array Y 4U @ unet3d_h100
  accelerators = 36 [count]
measured: Array Y 4U @ unet3d_h100 accelerators=36
  accelerator_utilization = 92.4 [%]; training_samples_per_second = 698.4 [samples/s];
  throughput_mb_s = 102,385 [MB/s]; throughput_per_accelerator = 2,844 [MB/s];
  throughput_per_rack_unit = 25,596 [MB/s]
config:
  resnet50_h100_au_threshold = 90% [%]
measured: Array X 2U @ resnet50_h100
  accelerators = 380 [count]
measured: Array X 2U @ resnet50_h100 accelerators=380
  accelerator_utilization = 91.1 [%]; training_samples_per_second = 475,000.0 [samples/s];
  throughput_mb_s = 71,250 [MB/s]; throughput_per_accelerator = 188 [MB/s];
  throughput_per_rack_unit = 35,625 [MB/s]
measured: Array Y 4U @ resnet50_h100
  accelerators = 190 [count]
measured: Array Y 4U @ resnet50_h100 accelerators=190
  accelerator_utilization = 91.1 [%]; training_samples_per_second = 237,500.0 [samples/s];
  throughput_mb_s = 35,625 [MB/s]; throughput_per_accelerator = 188 [MB/s];
  throughput_per_rack_unit = 8,906 [MB/s]
config:
  cosmoflow_h100_au_threshold = 70% [%]
measured: Array X 2U @ cosmoflow_h100
  accelerators = 160 [count]
measured: Array X 2U @ cosmoflow_h100 accelerators=160
  accelerator_utilization = 72.8 [%]; training_samples_per_second = 30,400.0 [samples/s];
  throughput_mb_s = 86,032 [MB/s]; throughput_per_accelerator = 538 [MB/s];
  throughput_per_rack_unit = 43,016 [MB/s]
measured: Array Y 4U @ cosmoflow_h100
  accelerators = 96 [count]
measured: Array Y 4U @ cosmoflow_h100 accelerators=96
  accelerator_utilization = 72.8 [%]; training_samples_per_second = 18,240.0 [samples/s];
  throughput_mb_s = 51,619 [MB/s]; throughput_per_accelerator = 538 [MB/s];
  throughput_per_rack_unit = 12,905 [MB/s]
ratio_claim: Array X 2U > Array Y 4U @ unet3d_h100
  accelerators_ratio = 2x [x]
ratio_claim: Array X 2U > Array Y 4U @ cosmoflow_h100
  accelerators_ratio = 1.67x [x]
ratio_claim: Array X 2U > Array Y 4U @ unet3d_h100
  throughput_ratio = 2x [x]
ratio_claim: Array X 2U > Array Y 4U @ cosmoflow_h100
  throughput_ratio = 1.6x [x]
""",
    "dlio_mixed": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system; batch_size = 7 [count]; gpus = 8 [count];
  epochs = 5 [count]; dataset_size = 1.5 TB [TB]; file_count = 10,000 [count];
  file_size = 150 MB [MB]
measured: cfg1 @ unet3d
  epoch_time = 188 [s]; throughput = 7,979 [MB/s]; samples_per_second = 53.2 [samples/s];
  accelerator_utilization = 94.1 [%]; drive_power_avg = 18.2 [W]; energy_per_epoch = 0.95 [Wh];
  drive_energy_total = 4.75 [Wh]; total_time = 940 [s]; io_wait_share = 5.9 [%]
measured: cfg2 @ unet3d
  epoch_time = 271 [s]; throughput = 5,535 [MB/s]; samples_per_second = 36.9 [samples/s];
  accelerator_utilization = 65.3 [%]; drive_power_avg = 22.4 [W]; energy_per_epoch = 1.69 [Wh];
  drive_energy_total = 8.43 [Wh]; total_time = 1,355 [s]; io_wait_share = 34.7 [%]
ratio_claim: cfg2 > cfg1 @ unet3d
  epoch_time_increase = 44% [%]
ratio_claim: cfg1 > cfg2 @ unet3d
  throughput_increase = 44% [%]; energy_per_epoch_reduction = 43% [%]
ratio_claim: cfg2 > cfg1 @ unet3d
  throughput_slower = 30% [%]
ratio_claim: cfg1 > cfg2 @ unet3d
  epoch_time_faster = 31% [%]
""",
    "checkpoint": """
config:
  repetitions = 3 [count]; stddev = 1.1 [%]; checkpoint_size = 912 GB [GB];
  model_parameters = 70B [params]; ranks = 64 [count]; host_memory = 1 TB [TB];
  o_direct = 1 [count]
measured: NVMe tier @ llama70b_save - - write
  bandwidth = 38.4 [GB/s]; duration = 23.8 [s]
measured: Parallel FS on HDD @ llama70b_save - - write
  bandwidth = 17.3 [GB/s]; duration = 52.7 [s]
measured: NVMe tier @ llama70b_load - - read
  bandwidth = 61.0 [GB/s]; duration = 15.0 [s]
measured: Parallel FS on HDD @ llama70b_load - - read
  bandwidth = 24.4 [GB/s]; duration = 37.4 [s]
ratio_claim: NVMe tier > Parallel FS on HDD @ llama70b_save - - write
  time_reduction = 55% [%]; bandwidth_ratio = 2.2x [x]
ratio_claim: NVMe tier > Parallel FS on HDD @ llama70b_load - - read
  time_ratio = 2.5x [x]; bandwidth_increase = 150% [%]
headline_claim: NVMe tier > Parallel FS on HDD
  time_reduction = more than half [%] !more_than ~50; bandwidth_ratio = 2.5x [x] !up_to
""",
    "parallel_fs": """
config:
  iterations = 10 [count]; coefficient_of_variation = 1.5 [%]; file_size = 64 GB [GB];
  server_ram = 512 GB [GB]; ior_processes = 256 [count]; transfer_size = 1 MiB [MiB]
config: FS cluster, 8 nodes
  storage_nodes = 8 [count]; drives_per_node = 24 [count]; drive_capacity = 15.36 [TB];
  raw_capacity = 2.95 [PB]; usable_capacity = 2.36 [PB]; rack_units = 16 [count];
  list_price = 1,240,000 [USD]; cost_per_usable_tb = 526 [USD/TB]
config: FS cluster, 4 nodes
  storage_nodes = 4 [count]; drives_per_node = 24 [count]; drive_capacity = 15.36 [TB];
  raw_capacity = 1.47 [PB]; usable_capacity = 1.18 [PB]; rack_units = 8 [count];
  list_price = 640,000 [USD]; cost_per_usable_tb = 543 [USD/TB]
measured: FS cluster, 8 nodes @ ior_easy_read - 1MiB read
  bw_gib_s = 312 [GiB/s]; bandwidth_per_node = 39.0 [GiB/s];
  bandwidth_per_rack_unit = 19.5 [GiB/s]; bw_gb_s = 335 [GB/s]; bandwidth_per_tb = 114 [MB/s/TB]
measured: FS cluster, 4 nodes @ ior_easy_read - 1MiB read
  bw_gib_s = 157 [GiB/s]; bandwidth_per_node = 39.2 [GiB/s];
  bandwidth_per_rack_unit = 19.6 [GiB/s]; bw_gb_s = 169 [GB/s]; bandwidth_per_tb = 114 [MB/s/TB]
measured: FS cluster, 8 nodes @ ior_easy_write - 1MiB write
  bw_gib_s = 188 [GiB/s]; bandwidth_per_node = 23.5 [GiB/s];
  bandwidth_per_rack_unit = 11.8 [GiB/s]; bw_gb_s = 202 [GB/s]; bandwidth_per_tb = 68 [MB/s/TB]
measured: FS cluster, 4 nodes @ ior_easy_write - 1MiB write
  bw_gib_s = 95 [GiB/s]; bandwidth_per_node = 23.8 [GiB/s];
  bandwidth_per_rack_unit = 11.9 [GiB/s]; bw_gb_s = 102 [GB/s]; bandwidth_per_tb = 69 [MB/s/TB]
measured: FS cluster, 8 nodes @ mdtest_easy - - stat
  iops = 9.2 million [IOPS]
measured: FS cluster, 4 nodes @ mdtest_easy - - stat
  iops = 4.7 million [IOPS]
ratio_claim: FS cluster, 8 nodes > FS cluster, 4 nodes @ ior_easy_read - 1MiB read
  bandwidth_ratio = 1.99x [x]
ratio_claim: FS cluster, 8 nodes > FS cluster, 4 nodes @ ior_easy_write - 1MiB write
  bandwidth_increase = 98% [%]
ratio_claim: FS cluster, 8 nodes > FS cluster, 4 nodes @ mdtest_easy - - stat
  iops_ratio = 1.96x [x]
""",
    "headline_brief": """
config:
  trials = 3 [count]; spread_max = 3 [%]; power_meter = PDU [model]; power_boundary = array;
  working_set = 30 TB [TB]; controller_memory = 1 TB [TB]; queue_depth = 32 [count];
  numjobs = 8 [count]
measured: Gen5 array @ vdi 80/20 32KB
  tput = 84 [GB/s]; watts = 820 [W]; runtime = 1,714 [s]
measured: Gen4 array @ vdi 80/20 32KB
  tput = 20 [GB/s]; watts = 1,210 [W]; runtime = 7,200 [s]
measured: Gen5 array @ analytics 100/0 256KB
  tput = 97 [GB/s]; watts = 870 [W]; runtime = 1,485 [s]
measured: Gen4 array @ analytics 100/0 256KB
  tput = 46 [GB/s]; watts = 1,270 [W]; runtime = 3,130 [s]
measured: Gen5 array @ backup 0/100 1MB
  tput = 41.5 [GB/s]; watts = 900 [W]; runtime = 3,470 [s]
measured: Gen4 array @ backup 0/100 1MB
  tput = 25 [GB/s]; watts = 1,300 [W]; runtime = 5,760 [s]
measured: Gen5 array @ restore 100/0 1MB
  tput = 99 [GB/s]; watts = 880 [W]; runtime = 1,455 [s]
measured: Gen4 array @ restore 100/0 1MB
  tput = 49.5 [GB/s]; watts = 1,310 [W]; runtime = 2,909 [s]
ratio_claim: Gen5 array > Gen4 array @ vdi 80/20 32KB
  tput_ratio = 4.2x [x]
ratio_claim: Gen5 array > Gen4 array @ analytics 100/0 256KB
  tput_ratio = 2.1x [x]
ratio_claim: Gen5 array > Gen4 array @ backup 0/100 1MB
  tput_ratio = 1.6x [x]
ratio_claim: Gen5 array > Gen4 array @ restore 100/0 1MB
  tput_ratio = 2x [x]
ratio_claim: Gen5 array > Gen4 array @ vdi 80/20 32KB
  watts_reduction = 32% [%]
ratio_claim: Gen5 array > Gen4 array @ restore 100/0 1MB
  watts_reduction = 33% [%]; runtime_ratio = half [x] ~0.5; tput_faster = 2x [x];
  runtime_reduction = 50% [%]
ratio_claim: Gen4 array > Gen5 array @ restore 100/0 1MB
  runtime_ratio = twice [x] ~2
headline_claim: Gen5 array > Gen4 array
  tput_ratio = 4.2x [x] !up_to; tput_ratio_min = 1.6x [x] !range_min;
  watts_reduction = 33% [%] !up_to; tput_faster = up to 4.2x [x] !up_to
""",
    "transposed_claims": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: H @ m1 50/50 32KiB
  throughput = 5.2 [GB/s]
measured: L @ m1 50/50 32KiB
  throughput = 1.9 [GB/s]
ratio_claim: H > L @ m1 50/50 32KiB
  throughput_ratio = 2.7x [x]
measured: H @ m2 100/0 32KiB
  throughput = 8.8 [GB/s]
measured: L @ m2 100/0 32KiB
  throughput = 4.4 [GB/s]
ratio_claim: H > L @ m2 100/0 32KiB
  throughput_ratio = 2.0x [x]
measured: H @ m3 0/100 32KiB
  throughput = 3.6 [GB/s]
measured: L @ m3 0/100 32KiB
  throughput = 1.2 [GB/s]
ratio_claim: H > L @ m3 0/100 32KiB
  throughput_ratio = 3.0x [x]
headline_claim: H > L
  throughput_ratio = 2x to 3x [x] !range_min; throughput_ratio = 2x to 3x [x] !range_max ~3;
  throughput_ratio = at least 2x [x] !at_least; throughput_faster = 200% [%] !up_to
headline_claim: L > H
  throughput_reduction = 67% [%] !up_to
headline_claim: H > L
  throughput_ratio = more than double [x]
headline_claim: H
  throughput = 8.8 GB/s [GB/s] !up_to; throughput_max = 8.8 [GB/s] !headline;
  throughput_min = 3.6 [GB/s] !headline
headline_claim: H > L
  throughput_ratio = 2x [x] !headline; throughput_ratio = nearly 3x [x] !nearly
""",
    "summary_rows": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: n @ q0 100/0 64KiB read
  bandwidth = 1,310 [MiB/s]
measured: o @ q0 100/0 64KiB read
  bandwidth = 1,000 [MiB/s]
ratio_claim: n > o @ q0 100/0 64KiB read
  bandwidth_ratio = 1.31x [x]
measured: n @ q1 100/0 64KiB read
  bandwidth = 1,520 [MiB/s]
measured: o @ q1 100/0 64KiB read
  bandwidth = 1,000 [MiB/s]
ratio_claim: n > o @ q1 100/0 64KiB read
  bandwidth_ratio = 1.52x [x]
measured: n @ q2 100/0 64KiB read
  bandwidth = 1,180 [MiB/s]
measured: o @ q2 100/0 64KiB read
  bandwidth = 1,000 [MiB/s]
ratio_claim: n > o @ q2 100/0 64KiB read
  bandwidth_ratio = 1.18x [x]
measured: n @ q3 100/0 64KiB read
  bandwidth = 1,770 [MiB/s]
measured: o @ q3 100/0 64KiB read
  bandwidth = 1,000 [MiB/s]
ratio_claim: n > o @ q3 100/0 64KiB read
  bandwidth_ratio = 1.77x [x]
headline_claim: n > o
  bandwidth_ratio_average = 1.45x [x] !average; bandwidth_ratio_geomean = 1.43x [x] !geomean;
  bandwidth_ratio_min = 1.18x [x] !range_min; bandwidth_ratio_max = 1.77x [x] !range_max;
  bandwidth_increase = up to 77% [%] !up_to
ratio_claim: n > o
  bandwidth_ratio_avg = 1.45x [x]
ratio_claim: n > o @ all
  mean_bandwidth_increase = 45% [%]
""",
    "tiers_power": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
measured: rack A @ archive_ingest
  power_servers = 4,200 [W]; power_switches = 640 [W]; power_storage = 2,310 [W];
  power_total = 7,150 [W]; duration = 6.0 [h]; energy_total = 42.9 [kWh];
  energy_cost = 6.01 [USD]; data_ingested = 310 [TB]; energy_per_tb = 138 [Wh/TB];
  co2 = 16.3 [kg]; throughput = 14.35 [GB/s]; tb_per_kwh = 7.23 [TB/kWh]
measured: rack B @ archive_ingest
  power_servers = 4,180 [W]; power_switches = 640 [W]; power_storage = 3,905 [W];
  power_total = 8,725 [W]; duration = 6.0 [h]; energy_total = 52.4 [kWh];
  energy_cost = 7.33 [USD]; data_ingested = 310 [TB]; energy_per_tb = 169 [Wh/TB];
  co2 = 19.9 [kg]; throughput = 14.35 [GB/s]; tb_per_kwh = 5.92 [TB/kWh]
ratio_claim: rack A > rack B @ archive_ingest
  power_total_reduction = 18% [%]; power_storage_reduction = 41% [%];
  energy_total_reduction = 18% [%]
""",
    "tco": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system
config: opt1
  server_cost = 120,000 [USD]; network_cost = 18,000 [USD]; storage_cost = 260,000 [USD];
  energy_cost_5_years = 94,000 [USD]; total_cost = 492,000 [USD]; usable_capacity = 4.0 [PB];
  total_cost_per_tb = 123 [USD/TB]; price_per_tb_month = 2.05 [USD/TB];
  storage_cost_per_tb = 65.0 [USD/TB]
config: opt2
  server_cost = 90,000 [USD]; network_cost = 18,000 [USD]; storage_cost = 310,000 [USD];
  energy_cost_5_years = 71,000 [USD]; total_cost = 489,000 [USD]; usable_capacity = 5.2 [PB];
  total_cost_per_tb = 94 [USD/TB]; price_per_tb_month = 1.57 [USD/TB];
  storage_cost_per_tb = 59.6 [USD/TB]
ratio_claim: opt2 > opt1
  total_cost_ratio = 0.99x [x]; total_cost_per_tb_reduction = 24% [%]
""",
    "backup_appliance": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; outstanding_ios = 128 [count];
  power_meter = PDU [model]; power_boundary = system; jobs = 24 [count]
config: BK500
  raw_capacity = 576 [TB]; usable_capacity = 480 [TB]; effective_capacity = 9.6 [PB];
  dedup_ratio = 20:1; data_reduction_ratio = 20 [x]
measured: BK500 @ ingest 0/100 - write
  throughput = 68 [TB/h]; throughput = 18.9 [GB/s]
measured: BK500 @ restore 100/0 - read
  restore_time = 14.1 [h]
config: BK900
  raw_capacity = 1152 [TB]; usable_capacity = 960 [TB]; effective_capacity = 19.2 [PB];
  dedup_ratio = 20:1; data_reduction_ratio = 20 [x]
measured: BK900 @ ingest 0/100 - write
  throughput = 131 [TB/h]; throughput = 36.4 [GB/s]
measured: BK900 @ restore 100/0 - read
  restore_time = 7.3 [h]
ratio_claim: BK900 > BK500 @ ingest 0/100 - write
  throughput_increase = 93% [%]
ratio_claim: BK900 > BK500 @ restore 100/0 - read
  restore_time_reduction = 48% [%]
""",
    "parts_of_latency": """
config:
  runs = 3 [count]; stdev = 1 % [%]; direct_io = 1 [count]; power_meter = PDU [model];
  power_boundary = system; threads = 64 [count]
measured: N @ kv_get - 4KiB GET
  ops_per_second = 53,333 [ops/s]; latency_avg = 1.20 [ms]; latency_device = 0.36 [ms];
  latency_network = 0.24 [ms]; latency_p50 = 1.02 [ms]; latency_p95 = 2.40 [ms];
  latency_max = 48 [ms]; cpu_us_per_op = 41 [us]; bandwidth = 218 [MB/s];
  read_amplification = 3.1 [x]; drive_read_bandwidth = 677 [MB/s]
measured: M @ kv_get - 4KiB GET
  ops_per_second = 35,556 [ops/s]; latency_avg = 1.80 [ms]; latency_device = 0.54 [ms];
  latency_network = 0.36 [ms]; latency_p50 = 1.53 [ms]; latency_p95 = 3.60 [ms];
  latency_max = 72 [ms]; cpu_us_per_op = 41 [us]; bandwidth = 146 [MB/s];
  read_amplification = 3.1 [x]; drive_read_bandwidth = 451 [MB/s]
ratio_claim: N > M @ kv_get - 4KiB GET
  latency_p95_reduction = 33% [%]; ops_per_second_increase = 50% [%]
""",
    "oltp": """
config:
  repeats = 4 [count]; tps_error_bar = ±1.8 % [%]; database_size = 2 TB [TB];
  buffer_pool_memory = 128 GB [GB]; warehouses = 20000 [count]
measured: Local NVMe @ tpcc connections=32
  transactions_per_second = 55,082 [tps]; tpmc = 1.49M [tpmC]; latency_p95 = 1.22 [ms];
  latency_mean = 0.58 [ms]; storage_iops = 171K [IOPS]
measured: Local NVMe @ tpcc - 8KiB connections=32
  storage_read_iops = 110K [IOPS]
measured: Network volume @ tpcc connections=32
  transactions_per_second = 24,918 [tps]; tpmc = 0.67M [tpmC]; latency_p95 = 2.70 [ms];
  latency_mean = 1.28 [ms]; storage_iops = 77K [IOPS]
measured: Network volume @ tpcc - 8KiB connections=32
  storage_read_iops = 50K [IOPS]
ratio_claim: Local NVMe > Network volume @ tpcc connections=32
  transactions_per_second_ratio = 2.2x [x]; latency_p95_reduction = 55% [%] !approx
measured: Local NVMe @ tpcc connections=64
  transactions_per_second = 87,273 [tps]; tpmc = 2.36M [tpmC]; latency_p95 = 1.54 [ms];
  latency_mean = 0.73 [ms]; storage_iops = 271K [IOPS]
measured: Local NVMe @ tpcc - 8KiB connections=64
  storage_read_iops = 175K [IOPS]
measured: Network volume @ tpcc connections=64
  transactions_per_second = 39,481 [tps]; tpmc = 1.07M [tpmC]; latency_p95 = 3.40 [ms];
  latency_mean = 1.62 [ms]; storage_iops = 122K [IOPS]
measured: Network volume @ tpcc - 8KiB connections=64
  storage_read_iops = 79K [IOPS]
ratio_claim: Local NVMe > Network volume @ tpcc connections=64
  transactions_per_second_ratio = 2.2x [x]; latency_p95_reduction = 55% [%] !approx
measured: Local NVMe @ tpcc connections=128
  transactions_per_second = 123,303 [tps]; tpmc = 3.33M [tpmC]; latency_p95 = 2.18 [ms];
  latency_mean = 1.04 [ms]; storage_iops = 382K [IOPS]
measured: Local NVMe @ tpcc - 8KiB connections=128
  storage_read_iops = 247K [IOPS]
measured: Network volume @ tpcc connections=128
  transactions_per_second = 55,780 [tps]; tpmc = 1.51M [tpmC]; latency_p95 = 4.82 [ms];
  latency_mean = 2.29 [ms]; storage_iops = 173K [IOPS]
measured: Network volume @ tpcc - 8KiB connections=128
  storage_read_iops = 112K [IOPS]
ratio_claim: Local NVMe > Network volume @ tpcc connections=128
  transactions_per_second_ratio = 2.2x [x]; latency_p95_reduction = 55% [%] !approx
measured: Local NVMe @ tpcc
  cost_per_million_transactions = 0.021 [USD]
measured: Network volume @ tpcc
  cost_per_million_transactions = 0.034 [USD]
ratio_claim: Local NVMe > Network volume @ tpcc
  cost_per_million_transactions_reduction = 38% [%]
headline_claim: Local NVMe > Network volume
  transactions_per_second_ratio = 2.2x [x] !up_to
""",
}
