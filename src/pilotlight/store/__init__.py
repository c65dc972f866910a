"""What the collector keeps: windows, steps, findings and captures of all jobs, on ClickHouse."""
