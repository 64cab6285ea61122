"""What helps to test: code that uses runnerq, and storage backends of one's own."""
