package chunk

// SetBuffers says what the kernel is to be taken to say about send buffers, until restore is called.
func SetBuffers(tuned, widest int, share int64) (restore func()) {
	before := buffers
	buffers = func() kernelBuffers { return kernelBuffers{tuned, widest, share} }
	return func() { buffers = before }
}

// Widened returns how many bytes the buffers that are widened may have.
func Widened() int64 { return widened.Load() }
