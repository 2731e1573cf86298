//go:build !linux

package redisbuf

import "os"

// A vectored is for Linux only; elsewhere bytes move by the connection's own Read and Write.
type vectored struct{}

func newVectored(*wire) *vectored { return nil }

func (*vectored) exchange(int) (int, error) { return 0, nil }
func (*vectored) receive(int) (int, error)  { return 0, nil }
func (*vectored) send() error               { return nil }

func (*vectored) sendFile(*os.File, int64) (int64, error) { return 0, errUnhandled }
