package listwatchtest

import (
	"encoding/json"
	stderrors "errors"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func errUnauthorized() error {
	return statusError(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", nil)
}

func errNotFound() error {
	return statusError(http.StatusNotFound, metav1.StatusReasonNotFound,
		"the server could not find the requested resource", &metav1.StatusDetails{})
}

func errMethod() error {
	return statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		"the server does not allow this method on the requested resource", &metav1.StatusDetails{})
}

func statusError(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) error {
	return &errors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details,
	}}
}

// statusOf turns any error into a Status: one that has none of its own is a 500
// with the bare text, as on a real server.
func statusOf(err error) *metav1.Status {
	var api errors.APIStatus
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if stderrors.As(err, &api) {
		status = api.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

// writeError answers with a Status in the encoding that was asked for, or as
// JSON when that is not to be had.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	out, negotiated := negotiate(r, nil)
	if negotiated != nil {
		writeRawJSON(w, int(status.Code), status)
		return
	}
	s.writeObject(w, r, out, int(status.Code), status)
}

// writeRawJSON writes what is no API object, or an error about the encoding itself.
func writeRawJSON(w http.ResponseWriter, code int, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error here is a client that went away.
	_, _ = w.Write(body)
}
