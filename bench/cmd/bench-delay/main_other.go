//go:build !linux

package main

import "log"

func main() { log.Fatal("bench-delay: only Linux has the networks that it is made of") }
