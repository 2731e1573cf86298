//go:build !linux

package record

// A kernel has no function on this system, because events are only observed on Linux.
type kernel struct{ source, note string }

func openKernel(Options) *kernel { return &kernel{source: "nothing", note: " (this is not Linux)"} }

func (*kernel) read(*Kernel) {}

func (*kernel) close() {}
