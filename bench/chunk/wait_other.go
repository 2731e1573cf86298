//go:build !linux

package chunk

import "time"

func wait(d time.Duration) { time.Sleep(d) }
