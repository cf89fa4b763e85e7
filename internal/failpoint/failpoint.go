// Package failpoint kills the process at a named place. Only programs that are built with the tag failpoint, for crash
// tests, can be killed so. In all others, and in the image, the calls do nothing.
package failpoint

// Variable names the place at which the process kills itself, such as "module-run:claimed". With ":2" behind the name, it
// does so when it reaches the place for the second time.
const Variable = "ADDON_OPERATOR_FAILPOINT"
