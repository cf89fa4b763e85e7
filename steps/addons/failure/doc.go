// Package failure examines the results of a round. It computes why a configuration fails, whether another attempt can
// succeed, and which of its addons conflict with modules of the image. Its functions use only their arguments.
package failure
