//go:build !unix

package main

import "os"

var replaceSignals []os.Signal

func monotonic() int64 { return 0 }
