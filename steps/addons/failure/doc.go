// Package failure computes, from the results of a round alone, why a configuration fails, whether
// another attempt can succeed, and which of its addons conflict with modules of the image.
package failure
