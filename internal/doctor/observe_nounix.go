//go:build !unix

package doctor

func openFilesLimit() Limit { return Limit{} }

func accessible(string, bool) bool { return true }
