//go:build !linux

package record

// A kernelReader reads nothing, because kernel statistics are available only on Linux.
type kernelReader struct{ source, note string }

func openKernel(Options) *kernelReader {
	return &kernelReader{source: "nothing", note: " (this is not Linux)"}
}

func (*kernelReader) read(*Kernel) {}

func (*kernelReader) close() {}
