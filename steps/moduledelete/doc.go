// Package moduledelete deletes modules. It detaches the bindings of a disabled module, and deletes the state of the
// module in the store after its release is deleted. It also purges releases that have no module.
package moduledelete
