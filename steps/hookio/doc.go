// Package hookio reads the input of hooks from the store, checks what they have written, and saves it.
package hookio
