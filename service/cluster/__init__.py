"""Work on a Ray cluster in place of the machine of the service: training runs, and the encoding of many documents."""
