//go:build !unix

package doctor

func openFilesLimit() Limit { return Limit{} }
