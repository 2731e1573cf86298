//go:build !linux

package soak

// Elsewhere nothing tells of a process' memory and threads, and no test asks for these.

func mapMemory(int)    { panic("only on Linux") }
func startThreads(int) { panic("only on Linux") }
