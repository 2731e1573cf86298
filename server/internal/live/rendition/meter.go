package rendition

// A meter measures the bit rate of a stream.
type meter struct {
	since int64 // start of the measurement, in ns
	bytes int64
	rate  int64 // bits per second; 0 in the first second
}

// add counts n bytes that arrived at now, in ns of a monotonic clock. Once a second it updates
// m.rate and returns true.
func (m *meter) add(n int, now int64) bool {
	if m.since == 0 {
		m.since = now
	}
	m.bytes += int64(n)
	elapsed := now - m.since
	if elapsed < 1e9 {
		return false
	}
	rate := int64(float64(m.bytes) * 8e9 / float64(elapsed))
	if m.rate > 0 {
		// The rate is averaged, so that a second with one more keyframe than usual does not change
		// the rate abruptly.
		rate = (rate + m.rate) / 2
	}
	*m = meter{since: now, rate: rate}
	return true
}
