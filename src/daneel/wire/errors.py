"""Errors of the wire: one exception per way a request can end badly, each knowing its HTTP status.

WireError
├── BadRequest              400  the request is wrong; `param` names the field
│   └── ContextTooLong      400  prompt (+ max_tokens) does not fit; the message gives both numbers
├── Unauthorized            401  no key, or a wrong one
├── Forbidden               403  the key lacks the right
├── NotFound                404  no such route or model
├── MethodNotAllowed        405
├── PayloadTooLarge         413
├── UnsupportedMediaType    415  not JSON
├── ToolCallFailed          422  `on_failed_tool_call: "error"` and a call could not be read
├── TooManyRequests         429  this key's limit; carries `retry_after_s`
├── ServerUnavailable       503  full, draining, or the engine restarts; carries `retry_after_s`
├── TimeLimitExceeded       504  a time limit, named
└── ServerBug               500  only for a bug of the server
"""

from __future__ import annotations

from typing import Any, ClassVar


class WireError(Exception):
    """Base of all errors that have an HTTP status. `message` alone must be enough to act on."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        """The error as the wire carries it: `{"error": {"message", "type", "code", "param"}}`."""
        return {"error": {"message": self.message, "type": self.type, "code": self.code, "param": self.param}}


class BadRequest(WireError):
    status, type, code = 400, "invalid_request_error", "invalid_request"


class ContextTooLong(BadRequest):
    code = "context_length_exceeded"


class Unauthorized(WireError):
    status, type, code = 401, "authentication_error", "invalid_api_key"


class Forbidden(WireError):
    status, type, code = 403, "permission_error", "forbidden"


class NotFound(WireError):
    status, type, code = 404, "not_found_error", "not_found"


class MethodNotAllowed(WireError):
    status, type, code = 405, "invalid_request_error", "method_not_allowed"


class PayloadTooLarge(WireError):
    status, type, code = 413, "invalid_request_error", "payload_too_large"


class UnsupportedMediaType(WireError):
    status, type, code = 415, "invalid_request_error", "unsupported_media_type"


class ToolCallFailed(WireError):
    status, type, code = 422, "tool_call_error", "tool_call_failed"


class TooManyRequests(WireError):
    status, type, code = 429, "rate_limit_error", "rate_limit_exceeded"


class ServerUnavailable(WireError):
    status, type, code = 503, "server_error", "unavailable"


class TimeLimitExceeded(WireError):
    status, type, code = 504, "timeout_error", "timeout"


class ServerBug(WireError):
    status, type, code = 500, "server_error", "internal_error"
