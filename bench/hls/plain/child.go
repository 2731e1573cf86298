package plain

import (
	"net/http"

	"github.com/millrace-io/millrace/bench/measure"
)

// Child is the name of the server for measure.Self. Its argument is the address.
var Child = measure.RegisterChild("hls-plain", func(args []string) error {
	return http.ListenAndServe(args[0], new(Server))
})
