"""Train and evaluate many variants of one configuration: the paper's ablations, or your own."""
