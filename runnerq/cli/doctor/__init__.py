"""``runnerq doctor``: what is wrong, found by looking. One small function a check; none of them changes anything."""
