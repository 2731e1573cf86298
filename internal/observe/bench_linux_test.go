package observe

import "testing"

// BenchmarkSwitch is what a tracer adds where it costs most: two threads that do nothing but wake each other. One
// operation is two wake-ups and two switches.
func BenchmarkSwitch(b *testing.B) {
	b.Run("untraced", func(b *testing.B) { pingPong(b, b.N) })
	b.Run("traced", func(b *testing.B) {
		trace(b, nil, (*tracer).enableRunQueue)
		b.ResetTimer()
		pingPong(b, b.N)
		b.StopTimer()
	})
}
