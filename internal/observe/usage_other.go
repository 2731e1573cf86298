//go:build !unix

package observe

import "errors"

const usageScope = ""

// A usage has nothing to read where there is no rusage.
type usage struct{}

func (u *usage) enableFaults() error { return errors.New("needs Unix") }
func (u *usage) read(*KernelSample)  {}
func (u *usage) notes() []string     { return nil }
func (u *usage) close() error        { return nil }
