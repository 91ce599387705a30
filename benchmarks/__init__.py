"""Speed and quality, ours and our peers', side by side; each module is one command."""
