"""torch's FlexAttention."""
