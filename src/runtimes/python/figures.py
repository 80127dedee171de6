# SPDX-License-Identifier: Apache-2.0
"""matplotlib figures: shown as images at plt.show() and at the end of a cell, then closed.

With IPython and matplotlib_inline, figures go through that package's formatters, so that its settings (`%config
InlineBackend.figure_format = "svg"`) work; else through a small Agg backend of our own. In both cases it is we who
decide when: a figure that was already shown as a result or by display(), and not changed since, is not shown again,
and figures made with another backend (`matplotlib.use("Agg")`) are shown too.
"""
import sys
from weakref import WeakSet

_figures = None


class Figures:
    def __init__(self, driver):
        self.driver = driver
        self.shown = WeakSet()

    @staticmethod
    def open():
        """The managers of all figures that pyplot knows, oldest first."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        return helpers.Gcf.get_all_fig_managers() if helpers is not None else []

    @staticmethod
    def is_figure(value):
        module = sys.modules.get("matplotlib.figure")
        return module is not None and isinstance(value, getattr(module, "Figure", ()))

    def png(self, figure):
        """The figure as PNG bytes; None for an empty one."""
        if not figure.axes and not figure.lines and not getattr(figure, "texts", ()) \
                and not getattr(figure, "images", ()) and not getattr(figure, "subfigs", ()):
            return None
        from io import BytesIO
        if figure.canvas is None or not hasattr(figure.canvas, "print_png"):
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            FigureCanvasAgg(figure)
        out = BytesIO()
        figure.canvas.print_figure(out, format="png", dpi=figure.dpi, bbox_inches="tight",
                                   facecolor=figure.get_facecolor(), edgecolor=figure.get_edgecolor())
        return out.getvalue()

    def mark(self, value):
        """A value has just been displayed. Drawing it may have touched it; that is not a change by the user."""
        if self.is_figure(value):
            value.stale = False
            self.shown.add(value)

    def show(self, close=True):
        """Show what has not been shown yet; the body of plt.show()."""
        managers = self.open()
        if not managers:
            return
        try:
            for manager in managers:
                figure = manager.canvas.figure
                if figure not in self.shown or figure.stale:
                    self.driver.shell.show_figure(figure)
                    self.mark(figure)
        finally:
            if close:
                helpers = sys.modules["matplotlib._pylab_helpers"]
                helpers.Gcf.destroy_all()

    def make_backend(self, namespace):
        """Fill a module as matplotlib wants its backends to be."""
        from matplotlib.backend_bases import FigureManagerBase
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        figures = self

        class FigureManager(FigureManagerBase):
            def show(self):
                figures.driver.shell.show_figure(self.canvas.figure)
                figures.mark(self.canvas.figure)

        class FigureCanvas(FigureCanvasAgg):
            manager_class = FigureManager

        def new_figure_manager_given_figure(num, figure):
            return FigureManager(FigureCanvas(figure), num)

        def new_figure_manager(num, *args, FigureClass=None, **kwargs):
            if FigureClass is None:
                from matplotlib.figure import Figure as FigureClass
            return new_figure_manager_given_figure(num, FigureClass(*args, **kwargs))

        def show(*args, **kwargs):
            figures.show()

        namespace.update(FigureCanvas=FigureCanvas, FigureManager=FigureManager, show=show,
                         new_figure_manager=new_figure_manager,
                         new_figure_manager_given_figure=new_figure_manager_given_figure)


def get(driver):
    global _figures
    if _figures is None:
        _figures = Figures(driver)
    return _figures
