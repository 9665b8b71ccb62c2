//! For connections that change what is read and leave what is written as it is.

/// Implements `AsyncWrite` for a wrapper by its field `connection`; `plain` if that is of one type only.
macro_rules! write_to_connection {
    ($wrapper:ident) => {
        write_to_connection!(@implement [S: ::tokio::io::AsyncWrite + Unpin] $wrapper<S>);
    };
    (plain $wrapper:ident) => {
        write_to_connection!(@implement [] $wrapper);
    };
    (@implement [$($generics:tt)*] $wrapper:ty) => {
        impl<$($generics)*> ::tokio::io::AsyncWrite for $wrapper {
            fn poll_write(
                mut self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                bytes: &[u8],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                ::std::pin::Pin::new(&mut self.connection).poll_write(cx, bytes)
            }

            fn poll_write_vectored(
                mut self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                pieces: &[::std::io::IoSlice<'_>],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                ::std::pin::Pin::new(&mut self.connection).poll_write_vectored(cx, pieces)
            }

            fn is_write_vectored(&self) -> bool {
                self.connection.is_write_vectored()
            }

            fn poll_flush(
                mut self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                ::std::pin::Pin::new(&mut self.connection).poll_flush(cx)
            }

            fn poll_shutdown(
                mut self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                ::std::pin::Pin::new(&mut self.connection).poll_shutdown(cx)
            }
        }
    };
}

pub(super) use write_to_connection;
