//go:build !unix

package systemd

import (
	"errors"
	"net"
	"os"
)

func file(net.Listener) (*os.File, error) { return nil, errors.ErrUnsupported }
