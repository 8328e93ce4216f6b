//! Header of the safetensors format.

const BLOCK: usize = 4096;

/// Build the header of a safetensors file with `bytes` bytes in total: its length in 8 bytes, then
/// JSON, padded to a block of 4,096 bytes. `None` if the file is too small for it.
pub fn header(name: &str, bytes: u64) -> Option<Vec<u8>> {
    let data = bytes.checked_sub(BLOCK as u64)?;
    let tensor = name.rsplit('/').next().unwrap_or(name);
    let tensor = tensor.strip_suffix(".safetensors").unwrap_or(tensor);
    let description = serde_json::json!({
        tensor: {"dtype": "U8", "shape": [data], "data_offsets": [0, data]},
        "__metadata__": {"made_by": "storlab"},
    });
    let mut header = vec![0; 8];
    header.extend(description.to_string().into_bytes());
    if header.len() > BLOCK {
        return None;
    }
    header.resize(BLOCK, b' ');
    header[..8].copy_from_slice(&((BLOCK - 8) as u64).to_le_bytes());
    Some(header)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_safetensors_header_is_a_block_that_says_how_long_it_is() {
        let header = super::header("layer_0/model.safetensors", 10_000).unwrap();
        assert_eq!(header.len(), 4096);
        let length = u64::from_le_bytes(header[..8].try_into().unwrap()) as usize;
        let description: serde_json::Value =
            serde_json::from_slice(&header[8..8 + length]).unwrap();
        assert_eq!(description["model"]["data_offsets"], serde_json::json!([0, 5904]));
        assert!(super::header("m", 100).is_none());
    }
}
