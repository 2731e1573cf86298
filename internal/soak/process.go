package soak

// A process is what the system says of one.
type process struct {
	descriptors, threads int64
	rss, anonymous       int64
}
