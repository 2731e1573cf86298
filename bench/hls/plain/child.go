package plain

import (
	"net/http"

	"github.com/millrace-io/millrace/bench/measure"
)

// Child is the name with which measure.Self starts the server as a child process. The argument of
// the child is the address to listen on.
var Child = measure.RegisterChild("hls-plain", func(args []string) error {
	return http.ListenAndServe(args[0], new(Server))
})
