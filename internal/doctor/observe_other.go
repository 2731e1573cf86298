//go:build !darwin

package doctor

func systemValues() map[string]string { return nil }
