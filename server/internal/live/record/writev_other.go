//go:build !linux

package record

import (
	"io"

	"github.com/millrace-io/millrace"
)

// writeTo releases the bytes that were written.
func writeTo(c *millrace.Chain, w io.Writer) error {
	_, err := c.WriteTo(w)
	return err
}
