// Package docs holds the tests that keep the documents true: what they show
// compiles, what they name exists, and what they list is complete.
package docs
