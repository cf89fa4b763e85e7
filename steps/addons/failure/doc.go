// Package failure tells, from the results of a round alone, why a configuration of addons fails, whether
// another attempt can succeed, and which of its addons conflict with modules of the image.
package failure
