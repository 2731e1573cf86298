package chunk

// WithoutCachestat has files looked at as on a system that has no cachestat, until the returned function is called.
func WithoutCachestat() (restore func()) {
	before := noCachestat.Swap(true)
	return func() { noCachestat.Store(before) }
}
