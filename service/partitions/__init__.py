"""Collections whose documents are split over processes: partitions return raw evidence, a coordinator answers."""
