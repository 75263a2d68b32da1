"""Images that others have packed: WebDataset, Parquet, TFRecord, RecordIO, MDS."""
