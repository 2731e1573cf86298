//go:build !linux

package record

import (
	"io"

	"github.com/millrace-io/millrace"
)

// writeTo writes all bytes of c to w, and releases the written bytes.
func writeTo(c *millrace.Chain, w io.Writer) error {
	_, err := c.WriteTo(w)
	return err
}
