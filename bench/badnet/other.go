//go:build !linux

// Package badnet carries TCP connections over a bad network. It works only on Linux.
package badnet

import (
	"errors"
	"fmt"
	"os/exec"
	"time"
)

const Local, Wide, Narrow = "", "", ""

type Config struct {
	Delay         time.Duration
	Loss, Reorder float64
	Rate          int
	Queue         time.Duration
}

var Bad Config

type Stats struct{ Carried, Lost, Reordered, Full int64 }

type Network struct{}

// Command returns a command that fails.
func Command(...string) *exec.Cmd {
	return &exec.Cmd{Err: fmt.Errorf("badnet: %w", errors.ErrUnsupported)}
}

// Open fails.
func Open(Config, uint64) (*Network, error) { return nil, errors.ErrUnsupported }

func (*Network) Close() error { return nil }
func (*Network) Stats() Stats { return Stats{} }
