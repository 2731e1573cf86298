//go:build !linux

// Command bench-host measures what two parameters of the Linux kernel change for programs that write. It runs on Linux only.
package main

import "log"

func main() {
	log.Fatal("bench-host is for Linux: it measures vm.dirty_ratio and fs.aio-max-nr, which are parameters of its kernel")
}
