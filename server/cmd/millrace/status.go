package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A statusError is an error that contains the exit status of the process.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// unknownCommand is the beginning of cobra's error for an unknown command.
const unknownCommand = "unknown command"

func exitStatus(err error) int {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	if strings.HasPrefix(err.Error(), unknownCommand) {
		return 2
	}
	return 1
}

// misused returns err with exit status 2, which means an error in the command line.
func misused(err error) error { return withStatus(err, 2) }

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(fmt.Errorf("%s takes no argument, such as %q: see %[1]s --help",
			cmd.CommandPath(), args[0]))
	}
	return nil
}

func withStatus(err error, status int) error {
	if err == nil {
		return nil
	}
	return &statusError{err, status}
}

// wrongFlag returns an error for a flag that cannot be parsed. The error describes the valid
// values, and does not use the messages of pflag and strconv.
func wrongFlag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return misused(wrongValue("--"+invalid.GetFlag().Name, invalid))
	}
	return misused(fmt.Errorf("%w: see %s --help", err, cmd.CommandPath()))
}

// wrongValue returns an error for a flag with an invalid value. The argument name is the flag's
// name in the text of the error, such as "--memory".
func wrongValue(name string, invalid *pflag.InvalidValueError) error {
	if errors.Is(invalid, strconv.ErrRange) {
		return fmt.Errorf("%s is %s, which is out of range", name, invalid.GetValue())
	}
	want, ok := validValues[invalid.GetFlag().Value.Type()]
	if !ok {
		want = invalid.Unwrap().Error() // the errors of our flag types describe the valid values
	}
	if _, secret := invalid.GetFlag().Value.(interface{ HidesValue() }); secret {
		return fmt.Errorf("%s: %s", name, want)
	}
	return fmt.Errorf("%s is %q, %s", name, invalid.GetValue(), want)
}

// validValues describes the valid values of a flag. The keys are the names that pflag.Value.Type
// returns.
var validValues = map[string]string{
	"bool":     "want true or false, or nothing, which is true",
	"int":      "want a whole number, as in 100",
	"duration": "want a time with its unit, as in 90s, 5m or 1h30m",
}
