// Taken: being written in parallel, together with the tests of Chain. Do not overwrite.

package millrace_test
