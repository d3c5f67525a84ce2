"""Fine-tuning of one MLP matrix: `ft`, `ft_l`, `ft_m`, `locft_bf`."""
