package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A statusError is an error with an exit status.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// unknownCommand is what cobra's error for one begins with.
const unknownCommand = "unknown command"

// exitStatus returns the status that the process ends with for err, which is not nil.
func exitStatus(err error) int {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	if strings.HasPrefix(err.Error(), unknownCommand) {
		return 2
	}
	return 1
}

// misused gives an error in the command line the exit status 2.
func misused(err error) error { return withStatus(err, 2) }

// noArguments refuses arguments that are not flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(fmt.Errorf("%s takes no argument, such as %q: see %[1]s --help",
			cmd.CommandPath(), args[0]))
	}
	return nil
}

// withStatus gives err an exit status. It returns nil for no error.
func withStatus(err error, status int) error {
	if err == nil {
		return nil
	}
	return &statusError{err, status}
}

// wrongFlag replaces the errors of pflag and strconv by a description of valid values.
func wrongFlag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return misused(wrongValue("--"+invalid.GetFlag().Name, invalid))
	}
	return misused(fmt.Errorf("%w: see %s --help", err, cmd.CommandPath()))
}

// wrongValue returns an error for a flag's value, which was given by that name.
func wrongValue(name string, invalid *pflag.InvalidValueError) error {
	if errors.Is(invalid, strconv.ErrRange) {
		return fmt.Errorf("%s is %s, which is out of range", name, invalid.GetValue())
	}
	want, ok := wanted[invalid.GetFlag().Value.Type()]
	if !ok {
		want = invalid.Unwrap().Error() // our own values describe themselves
	}
	return fmt.Errorf("%s is %q, %s", name, invalid.GetValue(), want)
}

// wanted describes a flag's valid values, by the type of its pflag value.
var wanted = map[string]string{
	"bool":     "want true or false, or nothing, which is true",
	"int":      "want a whole number, as in 100",
	"duration": "want a time with its unit, as in 90s, 5m or 1h30m",
}
