"""The HTTP server: LibreTranslate's protocol, requests translated together, and a page that shows the decoding."""
