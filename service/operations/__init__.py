"""Operations: health checks, housekeeping, idempotent requests."""
