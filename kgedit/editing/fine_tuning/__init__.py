"""Fine-tuning of MLP matrices: `ft`, `ft_l`, `ft_m`, `locft_bf`, `crispedit`."""
