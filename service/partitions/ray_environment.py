"""The variables that Ray reads when it is imported, in the processes of the service and in its own."""

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray reports its use to its makers otherwise
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",  # a replica has threads of its own
}
